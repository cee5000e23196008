"""What several test tiers share."""
