"""What people are shown: the page of a service, and the report.

Made here, too, is what they show of a state: `views`.
"""
