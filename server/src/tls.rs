//! TLS: the server's certificate, and those of clients if they need one.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use tokio_rustls::rustls::{self, RootCertStore, ServerConfig};

/// Why TLS can't be spoken.
#[derive(Debug, Error)]
pub enum TlsError {
    #[error("{path}: {source}", path = path.display())]
    Pem { path: PathBuf, source: pem::Error },
    #[error("{path}: no certificate in it", path = path.display())]
    Empty { path: PathBuf },
    #[error("{path}: {source}", path = path.display())]
    Client {
        path: PathBuf,
        source: VerifierBuilderError,
    },
    #[error("the certificate and its key: {0}")]
    Pair(#[from] rustls::Error),
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Returns what speaks TLS with a certificate and its key. With `clients`, a client must have a certificate that one of those
/// has signed.
pub fn acceptor(
    certificate: &Path,
    key: &Path,
    clients: Option<&Path>,
) -> Result<TlsAcceptor, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?;
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for root in certificates(path)? {
                roots.add(root)?;
            }
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.map_err(|source| TlsError::Client {
                path: path.to_owned(),
                source,
            })?)
        }
    };
    let private = PrivateKeyDer::from_pem_file(key).map_err(|source| TlsError::Pem {
        path: key.to_owned(),
        source,
    })?;
    let config = builder.with_single_cert(certificates(certificate)?, private)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let found: Vec<_> = read.map_err(|source| TlsError::Pem {
        path: path.to_owned(),
        source,
    })?;
    match found.is_empty() {
        true => Err(TlsError::Empty {
            path: path.to_owned(),
        }),
        false => Ok(found),
    }
}
