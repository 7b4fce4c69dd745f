//! pClock.
