"""What applications say: PUT DEL QUERY REPLY ERR."""
