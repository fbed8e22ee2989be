"""The project's own tests; the plugin itself is loaded by its entry point."""

pytest_plugins = ["pytester"]
