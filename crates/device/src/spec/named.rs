//! The drives that come with Evenkeel: `devices/NAME.toml` at the top of the repository.

/// Name and text, in the order of the alphabet.
pub(super) const ALL: &[(&str, &str)] = &[
    ("flashsim-2009", include_str!("../../../../devices/flashsim-2009.toml")),
    ("flashsim-2009-dftl", include_str!("../../../../devices/flashsim-2009-dftl.toml")),
    ("microsoft-ssd", include_str!("../../../../devices/microsoft-ssd.toml")),
    ("nvme-tlc", include_str!("../../../../devices/nvme-tlc.toml")),
];
