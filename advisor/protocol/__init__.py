"""MessagePack-RPC, sans-IO: bytes to messages and back, every consequence of bad input decided in one place.

The only room that knows msgpack. `framing` cuts a stream into whole messages, `connection` turns them into requests
(service) and replies (client), `messages` holds the table of methods and checks their parameters, `encoding` writes
batches, `columns` reads them. Only `columns` imports numpy, and only the service imports `columns`.
"""
