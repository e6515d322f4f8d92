"""What the edges share of HTTP: replies and dates. The server that speaks it is in `server.http`."""
