"""ASGI middleware: request ids, protocol version, body limit and concurrency."""
