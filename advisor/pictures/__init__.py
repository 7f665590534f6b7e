"""What people are shown: the page of a service and the report, profiles as pages.

Made here, too, is what pages show of a state: `views`, `trend`, `boxes`, and `comparison` of two states.
"""
