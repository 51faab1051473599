"""Tables, charts and statistics."""
