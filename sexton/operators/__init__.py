"""What operators decide: controls, holds, registered instances and vaults, access; and the log of calls."""
