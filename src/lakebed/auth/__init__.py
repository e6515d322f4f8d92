"""Users, groups, policies, access keys, sessions, and the decision whether somebody may do something."""
