"""Types of landmarks from Wikimedia: from category URLs to "instance of" values, politely and over days if need be."""
