//! Numbers of the protocol document, and reading them from bytes.
