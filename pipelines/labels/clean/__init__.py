"""Landmarks and their scraped values → the landmarks that have a label."""
