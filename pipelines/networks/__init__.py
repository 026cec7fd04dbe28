"""Networks by name: of timm, of open_clip and their hubs, a trained model's folder, or code of one's own."""
