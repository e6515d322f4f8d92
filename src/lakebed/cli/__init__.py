"""The command line: one noun a file. Each talks to a server through the client."""
