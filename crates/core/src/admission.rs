//! The System Capacity Constraint (pClock, definition 4).
