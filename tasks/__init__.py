"""The steps of the flows: plan, measure, gather, judge and publish."""
