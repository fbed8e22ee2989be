"""NVIDIA's recipes: how they are launched, what they leave beside a log, and the suite of the certification.

A wing: nothing else imports it. It does by the hooks of docs/hooks.md what a site can do by them.
"""
