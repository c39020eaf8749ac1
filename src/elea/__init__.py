"""Elea: the Zenoh data space in Python, with Apache Spark as its data pipeline."""
