"""Programs that remarks are judged by: slow ones, each with a fast form and the cause to name, and fast ones."""
