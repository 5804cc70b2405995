"""The formats that conversations are taken out in; each turns contents into pieces of text as they are read."""
