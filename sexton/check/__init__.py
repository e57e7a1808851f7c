"""Whether metadata and objects agree, both ways: findings, what confirms them, and what a run may say."""
