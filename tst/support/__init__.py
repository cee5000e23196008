"""What several test modules or tiers share."""
