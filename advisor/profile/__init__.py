"""Task events to a call-path profile, live measures and a diagnosis (papers 3 and 5). Pure: no clock, no input or output."""
