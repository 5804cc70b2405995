"""Search: texts and titles as terms in an index, and what people type as questions to it."""
