"""Wikimedia over HTTP: the action API and the category pages, asked by Wikimedia's rules."""
