"""A real broker and Java peers for every test that asks for them."""

pytest_plugins = ["apportion.testing.plugin"]
