"""The engine's own benchmark: each part measures one thing beside a raw SQL loop in the same run."""
