"""The engine that is another server: any that speaks as OpenAI's does, at one address or several."""
