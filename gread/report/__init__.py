"""Numbers to tables, and statistics of them."""
