"""What ROS 2 writes: keys, tokens, QoS, attachments, definitions, hashes, messages. No I/O."""
