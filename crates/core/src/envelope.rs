//! The token bucket that meters a flow against its arrival upper bound.
