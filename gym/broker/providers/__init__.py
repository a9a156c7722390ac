"""What makes sandboxes: a container engine, bubblewrap, or plain processes."""
