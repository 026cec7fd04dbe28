"""The drawings of a report: what each shows of the models, as SVG in the colors of the page, and in words."""
