"""Groups of the new protocol governed from outside: a plan comes through the group to the class on the brokers."""
