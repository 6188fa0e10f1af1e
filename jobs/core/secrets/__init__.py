"""The layers of the secret detector (K5, Z1); `jobs.core.redaction` puts them together."""
