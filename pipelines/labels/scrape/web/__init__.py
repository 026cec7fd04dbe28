"""Wikimedia over HTTP: the action API and the category pages, asked as politely as Wikimedia wishes."""
