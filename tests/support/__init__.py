"""What our own tests, benches and recordings need beside ``apportion.testing``: servers, members, records."""
