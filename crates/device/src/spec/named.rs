//! The drives that come with Evenkeel: `devices/NAME.toml` at the top of the repository.

/// Name and text, in the order of the alphabet.
pub(super) const ALL: &[(&str, &str)] = &[
    ("atlas-iii", include_str!("../../../../devices/atlas-iii.toml")),
    ("barracuda", include_str!("../../../../devices/barracuda.toml")),
    ("cheetah4lp", include_str!("../../../../devices/cheetah4lp.toml")),
    ("cheetah9lp", include_str!("../../../../devices/cheetah9lp.toml")),
    ("flashsim-2009", include_str!("../../../../devices/flashsim-2009.toml")),
    ("flashsim-2009-dftl", include_str!("../../../../devices/flashsim-2009-dftl.toml")),
    ("ibm18es", include_str!("../../../../devices/ibm18es.toml")),
    ("ibm36z15approx", include_str!("../../../../devices/ibm36z15approx.toml")),
    ("microsoft-ssd", include_str!("../../../../devices/microsoft-ssd.toml")),
    ("nvme-tlc", include_str!("../../../../devices/nvme-tlc.toml")),
];
