"""SCOUT and HELLO: who is there?"""
