//! Listening sockets.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config::Listen;

/// A socket that clients connect to.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix { listener: UnixListener, path: PathBuf },
}

/// Why the gateway cannot listen on an address.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// Somebody else listens there.
    #[error("gateway.listen: {address} is in use by another process; stop it or choose another address")]
    InUse {
        /// The address.
        address: String,
    },
    /// The path exists and is no socket.
    #[error("gateway.listen: {path} exists and is not a socket; it is left alone: choose another path")]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// Something else went wrong.
    #[error("gateway.listen: cannot listen on {address}: {source}")]
    Failed {
        /// The address.
        address: String,
        /// What the system said.
        source: io::Error,
    },
}

impl Listener {
    /// Binds `listen`. The socket file of a server that is no more is replaced; one that answers is not.
    pub(crate) fn bind(listen: &Listen) -> Result<Self, ListenError> {
        let address = listen.to_string();
        let failed = |source: io::Error| match source.kind() {
            ErrorKind::AddrInUse => ListenError::InUse { address: address.clone() },
            _ => ListenError::Failed { address: address.clone(), source },
        };
        match listen {
            Listen::Tcp(socket) => {
                let listener = TcpListener::bind(socket).map_err(failed)?;
                listener.set_nonblocking(true).map_err(failed)?;
                Ok(Self::Tcp(listener))
            }
            Listen::Unix(path) => {
                remove_stale_socket(path, &address)?;
                let listener = UnixListener::bind(path).map_err(failed)?;
                listener.set_nonblocking(true).map_err(failed)?;
                Ok(Self::Unix { listener, path: path.clone() })
            }
        }
    }

    /// The address as bound: a port of 0 has become a real one.
    pub(crate) fn address(&self) -> Listen {
        match self {
            Self::Tcp(listener) => {
                let unspecified = SocketAddr::from(([0, 0, 0, 0], 0));
                Listen::Tcp(listener.local_addr().unwrap_or(unspecified))
            }
            Self::Unix { path, .. } => Listen::Unix(path.clone()),
        }
    }

    /// The next client, non-blocking, with a name for messages; `None` if nobody waits.
    pub(crate) fn accept(&self) -> io::Result<Option<(OwnedFd, Arc<str>)>> {
        let accepted = match self {
            Self::Tcp(listener) => listener.accept().and_then(|(stream, peer)| {
                // Replies are sent together already; waiting for more would only delay them.
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)?;
                Ok((OwnedFd::from(stream), Arc::from(peer.to_string())))
            }),
            Self::Unix { listener, path } => listener.accept().and_then(|(stream, _)| {
                stream.set_nonblocking(true)?;
                let peer = Arc::from(format!("{}#{}", path.display(), stream.as_raw_fd()));
                Ok((OwnedFd::from(stream), peer))
            }),
        };
        match accepted {
            Ok(client) => Ok(Some(client)),
            // A client that has already gone again is nobody's problem.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::ConnectionAborted | ErrorKind::Interrupted
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        match self {
            Self::Tcp(listener) => listener.as_raw_fd(),
            Self::Unix { listener, .. } => listener.as_raw_fd(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix { path, .. } = self {
            // Nothing can be done about a path that cannot be removed; the next start replaces it.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn remove_stale_socket(path: &Path, address: &str) -> Result<(), ListenError> {
    let Ok(metadata) = std::fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !metadata.file_type().is_socket() {
        return Err(ListenError::NotASocket { path: path.to_path_buf() });
    }
    if UnixStream::connect(path).is_ok() {
        return Err(ListenError::InUse { address: address.to_owned() });
    }
    std::fs::remove_file(path).map_err(|source| ListenError::Failed { address: address.to_owned(), source })
}
