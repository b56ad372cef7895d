"""Programs whose remarks are judged: slow ones, each with a fast form and the cause to name, and fast ones."""
