"""A study as one HTML file that needs nothing else.

study_page   the page
drawing      what its plots are drawn with
history      the fastest so far, by candidate
effects      the times that go with each value of a knob
"""
