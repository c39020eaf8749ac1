"""The data space over HTTP: REST, server-sent events, metrics and health."""
