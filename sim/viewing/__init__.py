"""The live viewer: a page in the browser that shows an environment as it runs, and takes commands."""
