"""The `rookery` command: `main` finds the subcommand, one module here is one subcommand."""
