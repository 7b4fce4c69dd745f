//! First come, first served.
