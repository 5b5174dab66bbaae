//! Why a token is minted.

use std::fmt;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MintReason {
    /// The Secret has no such key, or there is none.
    Missing,
    /// What is there is no token.
    NotAToken,
    /// It is another account's.
    OtherAccount,
    /// Its account was deleted and made again.
    AccountRecreated,
    /// It is meant for others.
    OtherAudiences,
    /// It is bound to another Secret, or to none: deleting this one would not revoke it.
    OtherSecret,
    Expired,
    /// It was issued by a clock that was far ahead: the API server refuses it until then.
    NotYetValid,
    /// Its time has come.
    Due,
}

impl MintReason {
    pub const ALL: [Self; 9] = [
        Self::Missing,
        Self::NotAToken,
        Self::OtherAccount,
        Self::AccountRecreated,
        Self::OtherAudiences,
        Self::OtherSecret,
        Self::Expired,
        Self::NotYetValid,
        Self::Due,
    ];

    /// As a metric's label.
    pub fn label(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::NotAToken => "not_a_token",
            Self::OtherAccount => "other_account",
            Self::AccountRecreated => "account_recreated",
            Self::OtherAudiences => "other_audiences",
            Self::OtherSecret => "other_secret",
            Self::Expired => "expired",
            Self::NotYetValid => "not_yet_valid",
            Self::Due => "due",
        }
    }
}

impl fmt::Display for MintReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "there was no token",
            Self::NotAToken => "the value was not a token",
            Self::OtherAccount => "it was another account's",
            Self::AccountRecreated => "its account was recreated",
            Self::OtherAudiences => "it was for other audiences",
            Self::OtherSecret => "it was not bound to this Secret",
            Self::Expired => "it had expired",
            Self::NotYetValid => "it was issued in the future",
            Self::Due => "it was due",
        })
    }
}
