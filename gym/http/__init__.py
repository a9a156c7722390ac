"""HTTP/1.1 between the processes of a stack: a pool of connections, streams, WebSocket."""
