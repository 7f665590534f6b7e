"""What people are shown: the page of a service and the report, profiles as pages, speedups as PNG.

Made here, too, is what pages show of a state: `views`, `trend`, `composed`, and `comparison` of two states.
"""
